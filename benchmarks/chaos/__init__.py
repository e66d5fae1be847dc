"""Does the gateway answer, keep what it acknowledged and hold budgets while its processes, engines and disk fail?"""
