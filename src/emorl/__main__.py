"""python -m emorl"""

from emorl.cli import main

main()
