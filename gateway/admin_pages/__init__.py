"""The gateway's side of the admin pages: their process, and what admin needs done but must not import."""
