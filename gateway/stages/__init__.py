"""What a request passes on its way, one file per feature; gateway.stages.features lists them."""
