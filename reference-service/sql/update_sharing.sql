UPDATE conversations
SET visibility = $1, shared_with_emails = $2, updated_at = now()
WHERE id = $3
