"""How much CPU, memory and start-up time does the gateway add to a request?"""
