"""How much of each model of the zoo is captured, and what capture costs."""
