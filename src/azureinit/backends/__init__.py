"""How something is done, and with which tool: functions from an intent to a Way or to Declined. Pure."""
