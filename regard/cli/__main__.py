from regard.cli import main

main()
