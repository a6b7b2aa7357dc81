SELECT visibility, shared_with_emails
FROM conversations
WHERE id = $1 AND user_id = $2
