SELECT count(*) AS "messages!" FROM messages WHERE conversation_id = $1
