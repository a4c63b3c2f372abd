"""AgentFly's predefined rewards by their documented contract, with this library's own graders behind them."""
