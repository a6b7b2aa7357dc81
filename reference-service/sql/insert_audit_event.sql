INSERT INTO auth_audit_log (id, user_id, event_type, provider_type, status, ip_address, user_agent)
VALUES ($1, $2, $3, $4, $5, $6, $7)
