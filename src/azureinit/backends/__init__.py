"""How a thing is done: functions in dicts, an intent in, a Way (or the reason to decline) out. Pure."""
