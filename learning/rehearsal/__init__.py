"""What a small engine would be worth on requests whose answers were recorded, before anything is switched on."""
