INSERT INTO {inbox}_marks (source, message_id, handler, topic, marked_at)
VALUES ('kafka', 'k-1', 'billing', 'order.placed', {at:-77});

UPDATE {outbox} SET state = 7, processed_at = {at:-1}, dismissed_by = 'ada', dismissed_why = 'a test order' WHERE seq = 8;
UPDATE {outbox}_failures SET code = 'handler.error' WHERE seq = 3;
UPDATE {inbox} SET state = 7, processed_at = {at:-1}, dismissed_by = 'ada' WHERE seq = 4;

INSERT INTO {outbox}_audit (act, what, messages, at, who, why, chosen)
VALUES ({u:c1}, 'dismissed', 1, {at:-1}, 'ada', 'a test order', NULL);
INSERT INTO {outbox}_holds (kind, name, owner, since, tried_at, code, why)
VALUES ('service', 'billing', {u:a6}, {at:-9}, {at:-8}, 'refused', 'it is closed');
