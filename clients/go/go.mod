module connd.org/conndial

go 1.19
