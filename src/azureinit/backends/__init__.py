"""How a thing is done, with which tool: functions from an intent to a Way or to Declined. Pure."""
