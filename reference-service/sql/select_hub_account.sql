-- A user's account at the code host.
SELECT provider_uid, provider_data ->> 'username' AS login
FROM user_auth_providers
WHERE user_id = $1 AND provider_type = $2
