-- Stores nothing when the conversation is not the sender's. One that is stored already stays, and
-- counts as stored now: a worker may ask twice, not knowing what became of the first time.
INSERT INTO messages (id, conversation_id, content, sender_id, type)
SELECT $1, c.id, $2, c.user_id, 'HUMAN'
FROM conversations c
WHERE c.id = $3 AND c.user_id = $4
ON CONFLICT (id) DO UPDATE SET id = excluded.id
