module github.com/penstock-dev/penstock

go 1.26
