"""The admin API: keys, tenants and usage for programs, on the address of the admin pages."""
