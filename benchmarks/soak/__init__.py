"""Does the gateway stay as it is, hour after hour?"""
