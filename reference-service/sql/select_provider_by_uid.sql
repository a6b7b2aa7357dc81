SELECT id, user_id FROM user_auth_providers WHERE provider_type = $1 AND provider_uid = $2
