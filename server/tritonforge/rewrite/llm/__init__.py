"""The optional engine: any language model behind the API that OpenAI's client speaks. It is never trusted.

`prompt` builds what is asked from the nouns, `transport` says what answers, `client` is the only file that knows the
`openai` package, `answer` reads what came back and `permitted` judges it before anything runs. What passes is a
candidate like any other.
"""
