"""What turns text into something else: analysed terms, entities, embedders, chat models."""
