module github.com/phasecol/phasecol/test

go 1.25.0
