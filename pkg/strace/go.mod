module github.com/phasecol/phasecol/pkg/strace

go 1.25.0
