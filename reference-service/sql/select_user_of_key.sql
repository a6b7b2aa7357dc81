SELECT user_id FROM user_preferences WHERE preferences ->> 'api_key_hash' = $1
