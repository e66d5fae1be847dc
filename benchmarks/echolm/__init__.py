"""What would the experiments of the EchoLM paper give with our router? A simulation."""
