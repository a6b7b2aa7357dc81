INSERT INTO messages (id, conversation_id, content, type)
VALUES ($1, $2, $3, 'SYSTEM_GENERATED')
