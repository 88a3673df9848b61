"""A model's process without a model: it says what it was asked, dies or sleeps when it is told to."""

import os
import sys
import time

from regard.serve import message_frames


def main() -> None:
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    if sys.argv[1].endswith("broken"):
        out.write(message_frames.pack_message({"fatal": "there is no such run"}))
        sys.exit(2)
    out.write(message_frames.pack_message({"ready": True, "verbs": ["predict", "look"], "task": "pretend"}))
    while (asked := message_frames.read_message(sys.stdin.buffer)) is not None:
        texts = asked["texts"] if asked["verb"] == "predict" else [asked["how"]["text"]]
        for text in texts:
            if text.startswith("die once ") and not os.path.exists(text.split()[2]):
                open(text.split()[2], "w").close()
                os._exit(9)
            if text == "die":
                os._exit(9)
            if text.startswith("sleep "):
                time.sleep(float(text.split()[1]))
        if "bug" in texts:
            out.write(message_frames.pack_message({"failed": "ZeroDivisionError: division by zero"}))
        elif asked["verb"] == "predict":
            each = [{"error": "no"} if t == "no" else {"answer": {"said": t, "by": os.getpid()}} for t in texts]
            out.write(message_frames.pack_message({"answer": each}))
        elif texts == ["no"]:
            out.write(message_frames.pack_message({"refused": "this cannot be looked at"}))
        else:
            said = {"html": f"<p>{sys.argv[1]} {asked['how']}</p>", "data": {"text": texts[0], "maps": []}}
            out.write(message_frames.pack_message({"answer": said}))


if __name__ == "__main__":
    main()
