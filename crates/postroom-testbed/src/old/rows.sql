-- Messages in every state, as programs of the first version left them.
-- 1 waits; 2 is due later; 3 failed twice and waits; 4 is held; 5 was held by a worker that vanished; 6 and 7 are done;
-- 8 is dead; 9 has expired; 10 was deleted; 11 is suspected of crashes.
INSERT INTO {outbox} (seq, id, message_id, kind, topic, destination, correlation_id, headers, payload, state, visible_at,
    due_at, next_attempt_at, expires_at, attempts, max_attempts, crashes, claim_no, owner, locked_until, created_at,
    last_attempt_at, last_error, processed_at, processed_by, response){own_numbers} VALUES
(1, {u:01}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'one', 0, {at:-90},
    NULL, NULL, NULL, 0, NULL, 0, 0, NULL, NULL, {at:-90}, NULL, NULL, NULL, NULL, NULL),
(2, {u:02}, {u:f2}, 'Command', 'bill', 'billing', 'cart-2', '{"language":"en"}', 'two', 0, {at:+3600},
    {at:+3600}, NULL, {at:+90000}, 0, 5, 0, 0, NULL, NULL, {at:-80}, NULL, NULL, NULL, NULL, NULL),
(3, {u:03}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'three', 0, {at:-5},
    NULL, {at:-5}, NULL, 2, NULL, 0, 2, NULL, NULL, {at:-70}, {at:-20}, 'out of paper', NULL, NULL, NULL),
(4, {u:04}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'four', 1, {at:+3600},
    NULL, NULL, NULL, 0, NULL, 0, 1, {u:a4}, {at:+3600}, {at:-60}, {at:-50}, NULL, NULL, NULL, NULL),
(5, {u:05}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'five', 1, {at:-10},
    NULL, NULL, NULL, 1, NULL, 1, 3, {u:a5}, {at:-10}, {at:-60}, {at:-40}, 'the worker vanished', NULL, NULL, NULL),
(6, {u:06}, NULL, 'PushCall', 'price', NULL, NULL, NULL, 'six', 2, NULL,
    NULL, NULL, NULL, 0, NULL, 0, 1, NULL, NULL, {at:-55}, {at:-54}, NULL, {at:-53}, {u:a6}, '7.50'),
(7, {u:07}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'seven', 2, NULL,
    NULL, {at:-45}, NULL, 1, NULL, 0, 2, NULL, NULL, {at:-52}, {at:-44}, 'too late', {at:-43}, {u:a6}, NULL),
(8, {u:08}, NULL, 'Event', 'order.placed', 'billing', NULL, NULL, 'eight', 3, NULL,
    NULL, NULL, {at:+86000}, 3, 3, 0, 3, NULL, NULL, {at:-51}, {at:-40}, 'no such order', {at:-39}, {u:a6}, NULL),
(9, {u:09}, NULL, 'Event', 'order.placed', 'billing', NULL, NULL, 'nine', 4, NULL,
    NULL, NULL, {at:-30}, 0, NULL, 0, 0, NULL, NULL, {at:-50}, NULL, NULL, {at:-30}, NULL, NULL),
(11, {u:11}, NULL, 'Event', 'order.placed', NULL, NULL, NULL, 'eleven', 0, {at:-3},
    NULL, {at:-3}, NULL, 0, NULL, 2, 2, NULL, NULL, {at:-40}, {at:-20}, 'the worker vanished', NULL, NULL, NULL);

INSERT INTO {outbox}_failures (seq, at, attempt, worker, error) VALUES
(3, {at:-30}, 1, {u:b1}, 'out of ink'), (3, {at:-20}, 2, {u:b2}, 'out of paper'), (8, {at:-40}, 3, NULL, 'no such order');

-- 1 waits; 2 is held; 3 is done and has an answer; 4 is dead; 5 was only seen; 6 is handled elsewhere; 7 failed once.
INSERT INTO {inbox} (seq, source, message_id, kind, topic, correlation_id, hash, headers, payload, state, visible_at,
    next_attempt_at, expires_at, attempts, crashes, claim_no, owner, locked_until, created_at, last_seen_at,
    last_attempt_at, last_error, processed_at, processed_by, response){own_numbers} VALUES
(1, 'shop', 'm-1', 'Event', 'order.placed', 'cart-1', {b:7368613235363a01}, '{"language":"de"}', 'one', 0, {at:-90},
    NULL, NULL, 0, 0, 0, NULL, NULL, {at:-90}, {at:-60}, NULL, NULL, NULL, NULL, NULL),
(2, 'shop', 'm-2', 'Event', 'order.placed', NULL, NULL, NULL, 'two', 1, {at:+3600},
    NULL, NULL, 0, 0, 1, {u:a4}, {at:+3600}, {at:-80}, {at:-80}, {at:-70}, NULL, NULL, NULL, NULL),
(3, 'shop', 'm-3', 'PushCall', 'price', NULL, {b:7368613235363a03}, NULL, 'three', 2, NULL,
    NULL, NULL, 0, 0, 1, NULL, NULL, {at:-70}, {at:-65}, {at:-69}, NULL, {at:-68}, {u:a6}, '7.50'),
(4, 'shop', 'm-4', 'Event', 'order.placed', NULL, NULL, NULL, 'four', 3, NULL,
    NULL, NULL, 1, 0, 1, NULL, NULL, {at:-60}, {at:-60}, {at:-59}, 'refused', {at:-58}, {u:a6}, 'no such order'),
(5, 'stripe', 'evt-5', 'Event', '', NULL, {b:7368613235363a05}, NULL, '', 5, NULL,
    NULL, NULL, 0, 0, 0, NULL, NULL, {at:-50}, {at:-20}, NULL, NULL, NULL, NULL, NULL),
(6, 'stripe', 'evt-6', 'Event', '', NULL, NULL, NULL, '', 6, NULL,
    NULL, NULL, 1, 0, 0, NULL, NULL, {at:-40}, {at:-40}, {at:-40}, NULL, NULL, NULL, NULL),
(7, 'shop', 'm-7', 'Event', 'order.placed', NULL, NULL, NULL, 'seven', 0, {at:-2},
    {at:-2}, {at:+5000}, 1, 0, 1, NULL, NULL, {at:-30}, {at:-30}, {at:-12}, 'try later', NULL, NULL, NULL);

INSERT INTO {inbox}_failures (seq, at, attempt, worker, error) VALUES (7, {at:-12}, 1, {u:b1}, 'try later');
