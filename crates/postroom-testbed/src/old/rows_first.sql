INSERT INTO {inbox}_marks (source, message_id, handler, marked_at) VALUES ('kafka', 'k-1', 'billing', {at:-77});
