SELECT id, user_id FROM user_auth_providers WHERE user_id = $1 AND provider_type = $2
