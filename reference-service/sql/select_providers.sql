-- The primary one first, then the latest. Times leave as the text that clients get.
SELECT id, user_id, provider_type, provider_uid, provider_data::text AS provider_data, is_primary,
       to_char(linked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS "linked_at!",
       to_char(last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS last_used_at
FROM user_auth_providers
WHERE user_id = $1
ORDER BY is_primary DESC, user_auth_providers.linked_at DESC, provider_type
