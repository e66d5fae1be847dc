"""What operators can have done, each written once: admin/operations/operation.py says how."""
