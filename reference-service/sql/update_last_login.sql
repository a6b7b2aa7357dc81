UPDATE users SET last_login_at = now() WHERE uid = $1
