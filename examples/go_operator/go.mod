module example.com/go_operator

go 1.21
