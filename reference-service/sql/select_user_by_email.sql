SELECT uid, email, display_name FROM users WHERE email = $1
