"""One file per endpoint, each thin: read the request, hand it to the pipeline or the pass-through."""
