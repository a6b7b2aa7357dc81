SELECT uid, email, display_name FROM users WHERE uid = $1
