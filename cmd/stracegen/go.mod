module github.com/phasecol/phasecol/cmd/stracegen

go 1.25.0
