"""Who may reach what: endpoints, stored things, models and regions, for requests that came with a gateway key."""
