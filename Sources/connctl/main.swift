import ConnctlCommands

Program.main()
