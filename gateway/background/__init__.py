"""What a worker does beside its requests, at its own pace; a request never waits for any of it."""
