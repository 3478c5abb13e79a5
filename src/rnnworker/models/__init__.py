"""One module per model: functions of a ``keras`` module, which none of them imports."""
