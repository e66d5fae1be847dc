"""DECIDES: what to send, and where. A decision is a value (router.plan.Plan); carrying it out is the gateway's."""
