-- Inserts nothing when the uid or the address is taken.
INSERT INTO users (uid, email, display_name, email_verified, last_login_at)
VALUES ($1, $2, $3, $4, now())
ON CONFLICT DO NOTHING
