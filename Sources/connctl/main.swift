import ConnctlCommands

await Program.main()
