"""Is a question familiar because of what is asked, or because of the template it stands in?"""
