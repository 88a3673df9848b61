"""From and to Hugging Face folders on this disk: BERT, GPT-2, Marian and T5. Nothing is downloaded or unpickled."""

from regard.hub.hf_folder import FAMILIES, ImportInfo, load_folder, save_folder

__all__ = ["FAMILIES", "ImportInfo", "load_folder", "save_folder"]
