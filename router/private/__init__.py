"""What may be said of a tenant's requests without saying anything of one contributor's: see docs/private-bank.md."""
