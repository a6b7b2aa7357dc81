UPDATE user_auth_providers SET last_used_at = now() WHERE id = $1
